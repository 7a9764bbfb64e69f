"""What a machine is, and machines that live together: contract, host, codec, trace."""
