"""What a person does with environments and policies: list, time, score, and watch them."""
